#!/bin/sh
# Install the programs the tests drive, given as COMMAND:DEBIAN_PACKAGE, when this machine lets us.
# Without them the browser and sandbox suites cannot run: say so and fail, unless ALLOW_SKIPS=1.
set -u
missing=
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=no; fi
    if [ "$as_root" != no ]; then
        echo "installing$missing from Debian's packages"
        # shellcheck disable=SC2086  # both hold several words on purpose
        $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq $missing >/dev/null
    fi
fi

status=0
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null 2>&1 && continue
    case "${pair%%:*}" in
        chromium) suites="site and explorer tests in the browser" ;;
        bwrap) suites="sandbox and red-team tests of the grader" ;;
        *) suites="some tests" ;;
    esac
    echo "no ${pair%%:*}: the $suites cannot run. Install it (Debian: apt-get install ${pair##*:})," >&2
    echo "or run the rest with: make test ALLOW_SKIPS=1" >&2
    status=1
done
[ "${ALLOW_SKIPS:-}" = 1 ] && exit 0
exit $status

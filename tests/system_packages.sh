#!/bin/sh
# Install Chromium, which the tests drive, when this machine lets us.
# Without it the browser tests cannot run: say so and fail, unless ALLOW_SKIPS=1.
set -u
has_chromium() { command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1; }
has_chromium && exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=no; fi
    if [ "$as_root" != no ]; then
        echo "installing chromium from Debian's packages"
        $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
    fi
fi

has_chromium && exit 0
echo "no chromium: the tests of the site, the explorers and the feedback pages in a browser cannot run." >&2
echo "Install it (Debian: apt-get install chromium), or run the rest with: make test ALLOW_SKIPS=1" >&2
[ "${ALLOW_SKIPS:-}" = 1 ]

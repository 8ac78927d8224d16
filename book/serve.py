"""Serve the built site on this machine until Ctrl-C."""

import argparse
import errno
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A reader wants the address, not a line for every file the browser asks for."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free port")
    parser.add_argument("--check", action="store_true", help="only say whether the port is free")
    arguments = parser.parse_args()
    if not arguments.check and not (arguments.site / "index.html").is_file():
        print(f"No site at {arguments.site}: build it with `make site`.", file=sys.stderr)
        return 1
    handler = partial(QuietHandler, directory=str(arguments.site))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", arguments.port), handler)
    except OverflowError:
        print(f"Port {arguments.port} does not exist: choose one from 1024 to 65535.", file=sys.stderr)
        return 1
    except PermissionError:
        print(
            f"Port {arguments.port} is reserved on this machine. Choose another: make book PORT=8000", file=sys.stderr
        )
        return 1
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        other = arguments.port + 1 if arguments.port < 65535 else 8000
        print(f"Port {arguments.port} is busy. Choose another: make book PORT={other}", file=sys.stderr)
        return 1
    with server:
        if arguments.check:
            return 0
        print(f"The course is at http://127.0.0.1:{server.server_port}/ (Ctrl-C stops it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nStopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The reviewer's desk: a small web server on this machine alone, which shows a class and keeps what is decided.

    lecturelib review grades

It listens on the loopback address. Its addresses begin with a secret that only whoever started it has seen, and each
form carries another, so that no page elsewhere in the browser can read or send anything; the name it is called by must
be its own, so that no other name can be made to point at it. It serves two pages and takes one form. What is saved is
in the journal, on disk, before the answer is sent, and in every file of results.
"""

import hashlib
import hmac
import math
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote

from lecturelib.grading.batch.journal import Decision, Journal, held_run
from lecturelib.grading.batch.record import WHOLE, Record, about, read_record
from lecturelib.grading.batch.run import slim, write_pages, write_tables
from lecturelib.grading.reports.page import number, page, text
from lecturelib.grading.reports.review import LONGEST_COMMENT, class_page, student_page
from lecturelib.grading.rubric.results import Graded

MOST_FORM_BYTES = 1 << 20
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # elsewhere the secret in the address is not told
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Desk:
    """A class under review: its rows, and the one way to change them. A context manager that keeps graders out.

    Args:
        folder: where `lecturelib grade` has put its results
    """

    def __init__(self, folder: Path) -> None:
        run, record = held_run(folder), read_record(folder)
        if run is None or record is None:
            raise ValueError(f"there is nothing to review in {folder}: grade a class with --out {folder} first")
        self.folder, self._lock = folder, threading.Lock()
        self._journal = Journal(folder, run)
        self.outline, self._record = record.outline, record
        self.rows = {row.student: slim(record.row(row, self._journal)) for row in record.rows}
        self.order = [row.student for row in record.rows]

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *error: object) -> None:
        self._journal.close()

    def whole(self, student: str) -> Graded:
        """A student's row with all that the journal has, answers and pictures too."""
        with self._lock:
            return self._record.row(self.rows[student], self._journal)

    def fields(self, row: Graded) -> dict[str, str]:
        """The name in the form of each score that can be changed, by what it is about."""
        scores = [about(test.exercise, test.name) for test in row.result.tests]
        return {WHOLE: "total", **{score: f"s{index}" for index, score in enumerate(scores)}}

    def save(self, student: str, form: dict[str, str]) -> int:
        """Keep what is new in a form, and write every file of results anew; how many decisions it were.

        Nothing is kept unless all of it can be.
        """
        with self._lock:
            row = self.rows[student]
            limits = {about(test.exercise, test.name): test.points for test in row.result.tests}
            held = _held(row)
            if form.get("version", version(row)) != version(row):  # its old values would undo what is newer
                raise ValueError("another window has saved something here meanwhile; this is how it stands now")
            new = {
                score: _decision(form.get(field, ""), form.get(f"{field}c", ""), limits.get(score), score)
                for score, field in self.fields(row).items()
            }
            changed = {score: decision for score, decision in new.items() if decision != held[score]}
            for score, decision in changed.items():
                self._journal.decide(row.key, score, decision)
            if changed:
                whole = self._record.row(row, self._journal)
                self.rows[student] = slim(whole)
                write_pages(self.folder, self.outline, whole)
                write_tables(self.folder, self.record)
            return len(changed)

    @property
    def record(self) -> Record:
        """The class as it stands."""
        rows = tuple(self.rows[student] for student in self.order)
        return Record(rubric=self._record.rubric, outline=self.outline, column=self._record.column, rows=rows)


def _held(row: Graded) -> dict[str, Decision]:
    """What is decided about a row so far, by what it is about."""
    held = {about(t.exercise, t.name): Decision(points=t.awarded, comment=t.comment) for t in row.result.tests}
    return {**held, WHOLE: Decision(points=row.total, comment=row.comment)}


def version(row: Graded) -> str:
    """Another one after each decision about a row."""
    return hashlib.sha256(repr(_held(row)).encode()).hexdigest()[:16]


def _decision(points: str, comment: str, most: float | None, score: str) -> Decision:
    comment = comment.replace("\r\n", "\n").strip()
    if len(comment) > LONGEST_COMMENT:
        raise ValueError(f"a comment has at most {LONGEST_COMMENT} characters, this one has {len(comment)}")
    if not points.strip():
        return Decision(comment=comment)
    try:
        value = float(points.replace(",", "."))
    except ValueError:
        value = math.nan
    if not 0 <= value <= (math.inf if most is None else most) or math.isinf(value):
        allowed = "at least 0" if most is None else f"from 0 to {number(most)}"
        raise ValueError(f"{score}: points are {allowed}, got {points[:40]!r}")
    return Decision(points=value, comment=comment)


class DeskServer(ThreadingHTTPServer):
    """The desk on a port of the loopback address. `address` is what to open."""

    daemon_threads = True

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self.desk, self.secret, self.token = desk, secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.secret}/"


class _Handler(BaseHTTPRequestHandler):
    server: DeskServer
    server_version, sys_version = "lecturelib", ""
    timeout = 60

    def do_GET(self) -> None:
        self._guarded(self._show)

    def do_POST(self) -> None:
        self._guarded(self._take)

    def _guarded(self, answer: Callable[[str], None]) -> None:
        """Only whoever knows the secret, by our own name, and from our own pages."""
        port = self.server.server_address[1]
        own = {f"127.0.0.1:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        first, _, rest = self.path.removeprefix("/").partition("/")
        if self.headers.get("Host") not in own or (origin and origin not in {f"http://{host}" for host in own}):
            self._refuse(HTTPStatus.FORBIDDEN, "This is not the address that this page was started under.")
        elif not hmac.compare_digest(first.encode(), self.server.secret.encode()):
            self._refuse(HTTPStatus.NOT_FOUND, "Open the whole address that `lecturelib review` has printed.")
        else:
            answer(rest)

    def _show(self, rest: str, said: str = "", status: HTTPStatus = HTTPStatus.OK) -> None:
        desk = self.server.desk
        rest, _, query = rest.partition("?")
        if not rest:
            links = {student: str(index) for index, student in enumerate(desk.order)}
            self._send(HTTPStatus.OK, class_page(desk.outline, list(desk.rows.values()), links))
        elif (index := self._index(rest)) is not None:
            row = desk.whole(desk.order[index])
            waiting = [i for i, one in enumerate(desk.order) if desk.rows[one].waits and i != index]
            following = next((i for i in waiting if i > index), next(iter(waiting), None))
            shown = student_page(
                desk.outline,
                row,
                fields=desk.fields(row),
                next_link="./" if following is None else str(following),
                token=self.server.token,
                version=version(row),
                said=said or ("Saved." if query == "saved" else ""),
            )
            self._send(status, shown)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _take(self, rest: str) -> None:
        index, length = self._index(rest.partition("?")[0]), self.headers.get("Content-Length", "")
        if index is None or not length.isdigit() or int(length) > MOST_FORM_BYTES:
            return self._refuse(HTTPStatus.BAD_REQUEST, "This is not the form of a student.")
        sent = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), keep_blank_values=True)
        form = {name: values[0] for name, values in sent.items()}
        if not hmac.compare_digest(form.get("token", "").encode(), self.server.token.encode()):
            return self._refuse(HTTPStatus.FORBIDDEN, "This form is not of this desk: open its page again.")
        try:
            self.server.desk.save(self.server.desk.order[index], form)
        except ValueError as error:
            return self._show(str(index), said=f"Not saved: {error}", status=HTTPStatus.BAD_REQUEST)
        except OSError as error:
            return self._show(str(index), said=f"Not saved: {error}", status=HTTPStatus.INSUFFICIENT_STORAGE)
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/{quote(self.server.secret)}/{index}?saved")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def _index(self, rest: str) -> int | None:
        return int(rest) if rest.isascii() and rest.isdigit() and int(rest[:9]) < len(self.server.desk.order) else None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(status, page(status.phrase, f"<h1>{text(status.phrase)}</h1><p>{text(why)}</p>"))

    def _send(self, status: HTTPStatus, document: str) -> None:
        content = document.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the address that would be logged holds the secret."""


def serve(folder: Path, port: int, opened: Callable[[str], object]) -> None:
    """Review a folder of results until Ctrl-C; `opened` is given the address."""
    with Desk(folder) as desk, DeskServer(desk, port) as server:
        print(f"review at {server.address}", flush=True)
        print("Ctrl-C ends it", file=sys.stderr)
        opened(server.address)
        server.serve_forever()

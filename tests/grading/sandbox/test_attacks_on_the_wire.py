"""Forged replies: from a call, from the notebook's process, from a thread that waits for calls. None gains a point.

Every attack finds its sockets the way a student would: by looking through frames and open descriptors.
"""

from textwrap import dedent

import pytest
import torch

from lecturelib.grading.notebook import Notebook
from lecturelib.grading.rubric.submission import CallCrashed

FIND = """
import json, os, socket, stat, struct, sys, threading, torch
def frame(header, buffers=b"", header_bytes=None, buffer_bytes=None):
    header = json.dumps(header).encode() if not isinstance(header, bytes) else header
    header_bytes = len(header) if header_bytes is None else header_bytes
    buffer_bytes = len(buffers) if buffer_bytes is None else buffer_bytes
    return struct.pack("<II", header_bytes, buffer_bytes) + header + buffers
def my_call():
    at = sys._getframe()
    while at:
        if "request" in at.f_locals and "connection" in at.f_locals:
            return at.f_locals["connection"], at.f_locals["request"]["nonce"]
        at = at.f_back
def reply(nonce, value, raised=None, missing=False):
    fields = [["value", value], ["raised", raised], ["missing", missing]]
    return {"dict": [["nonce", nonce], ["reply", {"record": ["Reply", fields]}]]}
def sockets():
    found = []
    for d in range(3, 60):
        try:
            if stat.S_ISSOCK(os.fstat(d).st_mode):
                found.append(d)
        except OSError:
            pass
    return found
"""
IN_A_CALL = {
    "garbage": ("b'garbage' * 100", "more than we take"),
    "a pickle": ("__import__('pickle').dumps(print)", "more than we take|not JSON"),
    "a header too long": ("frame(b'{}', header_bytes=1 << 31)", "more than we take"),
    "buffers too long": ("frame(b'{}', buffer_bytes=(1 << 32) - 1)", "more than we take"),
    "a frame cut short": ("frame(b'{}', header_bytes=100)", "ended without an answer"),
    "bytes left over": ("frame(reply(nonce, 1), bytes(64))", "64 bytes are left over"),
    "no nonce": ("frame({'dict': [['reply', None]]})", "does not belong to this call"),
    "another nonce": ("frame(reply('0' * 32, 1))", "does not belong to this call"),
    "a verdict": ("frame({'dict': [['nonce', nonce], ['passed', True]]})", "reply or ask was to come"),
    "a record we do not take": ("frame({'record': ['TestResult', [['outcome', 'pass']]]})", "not expected here"),
    "a class of Python": ("frame({'record': ['os.system', [['value', 'id']]]})", "not expected here"),
    "fields missing": ("frame({'record': ['Reply', [['value', 1]]]})", "exactly its own fields"),
    "fields twice": ("frame({'record': ['Reply', [['value', 1], ['value', 1]]]})", "a field twice"),
    "a private method": ("frame({'__class__': 1})", "unknown kind"),
    "a tensor without its numbers": ("frame(reply(nonce, {'tensor': ['float32', [2, 4, 3], False]}))", "0 were sent"),
    "an enormous shape": ("frame(reply(nonce, {'tensor': ['float32', [1 << 39], False]}))", "more than 33554432 bytes"),
    "an enormous product": ("frame(reply(nonce, {'tensor': ['int8', [1 << 20] * 8, False]}))", "more than 33554432"),
    "an enormous empty shape": ("frame(reply(nonce, {'tensor': ['int8', [0, 1 << 39], False]}))", "more than 33554432"),
    "a negative shape": (
        "frame(reply(nonce, {'tensor': ['float32', [-1], False]}), bytes(4))",
        "not a short list of sizes",
    ),
    "a shape of floats": ('frame(b\'{"tensor": ["float32", [1.5], false]}\')', "not JSON that we write"),
    "a shape of booleans": (
        "frame(reply(nonce, {'tensor': ['float32', [True], False]}), bytes(4))",
        "not a short list",
    ),
    "many dimensions": ("frame(reply(nonce, {'tensor': ['float32', [1] * 80, False]}), bytes(4))", "not a short list"),
    "an object dtype": ("frame(reply(nonce, {'tensor': ['object', [1], False]}), bytes(8))", "unknown dtype"),
    "deep nesting": ("frame(b'{\"list\":[' * 5000 + b']}' * 5000)", "not JSON that we write|nested deeper"),
    "many values": ("frame({'list': [0] * 200_000})", "more than 100000 values"),
    "bare NaN": ("frame(b'NaN')", "not JSON that we write"),
    "a long integer": ("frame(b'9' * 5000)", "not JSON that we write|64 bits"),
    "a callable": ("frame({'callable': [0, 'function']})", "not expected here"),
    "not ASCII": ("frame(b'\\xff\\xfe')", "not JSON that we write"),
    "a question out of nowhere": (
        "frame({'dict': [['nonce', nonce], ['ask', {'dict': [['do', 'call'], ['callable', 0], ['args', {'tuple': []}],"
        " ['kwargs', {'dict': []}]]}]]})",
        "a callable that we did not give",
    ),
    "an exception without a type": (
        "frame(reply(nonce, None, {'record': ['Raised', [['types', {'tuple': []}], ['message', ''], ['where', '']]]}))",
        "exception is not one",
    ),
    "an unhashable key": ("frame({'dict': [[{'list': []}, 1]]})", "not plain"),
}


@pytest.mark.parametrize("name", IN_A_CALL)
def test_malformed_frame_from_a_call_costs_that_call(box, name):
    source, reason = IN_A_CALL[name]
    code = FIND + dedent(f"""
        def attention(q, k, v):
            connection, nonce = my_call()
            connection.sendall({source})
            connection.close()
            os._exit(0)
        def fine():
            return 1
        """)
    with box.open(Notebook(cells=((1, code),))) as submission:
        with pytest.raises(CallCrashed, match=reason):
            submission.attention(1, 2, 3)
        assert submission.fine() == 1


def test_well_formed_forgery_is_only_a_value(attack):
    """Whoever forges a reply to his own call has answered it: with the value, which is wrong."""
    attack(
        FIND
        + dedent("""
        def attention(q, k, v):
            connection, nonce = my_call()
            connection.sendall(frame(reply(nonce, {"tensor": ["float32", [2, 4, 3], False]}), bytes(96)))
            os._exit(0)
        """)
    )


def test_replies_written_ahead_are_not_taken_for_later_calls(attack):
    """From a call: several replies at once, of which only the first can count, and only for this call."""
    attack(
        FIND
        + dedent("""
        def softmax(x):
            connection, nonce = my_call()
            ahead = b"".join(frame(reply(nonce, {"tensor": ["float32", list(x.shape), False]}), bytes(4 * x.numel()))
                             for _ in range(5))
            connection.sendall(ahead)
            os._exit(0)
        """),
        score=2,
    )


def test_notebook_process_cannot_answer_before_it_is_asked(attack):
    """From the notebook's cells: forged replies into every socket there is, before any call exists."""
    attack(
        FIND
        + dedent("""
        for d in sockets():
            try:
                socket.socket(fileno=os.dup(d)).sendall(frame(reply("0" * 32, 1)) * 5)
            except OSError:
                pass
        """),
        score=None,
        reason="did not say what it should|its report of the run is not one",
    )


def test_thread_that_waits_for_calls_can_only_guess(attack):
    """A thread in the notebook's process writes to every socket that appears there, all the time."""
    attack(
        FIND
        + dedent("""
        first = set(sockets())
        def spam():
            while True:
                for d in set(sockets()) - first:
                    try:
                        os.write(d, frame(reply("0" * 32, 1)))
                    except OSError:
                        pass
        threading.Thread(target=spam, daemon=True).start()
        """),
        score=None,
    )


def test_what_a_call_does_after_its_answer_comes_too_late(attack):
    """Threads, finalisers and exit handlers that write to every socket and kill the notebook's process."""
    attack(
        FIND
        + dedent("""
        import atexit
        def strike():
            for d in sockets():
                try:
                    os.write(d, frame(reply("0" * 32, True)))
                except OSError:
                    pass
            os.kill(os.getppid(), 9)
        class Bomb:
            def __del__(self):
                strike()
        def attention(q, k, v):
            atexit.register(strike)
            bomb = Bomb()
            bomb.itself = bomb
            threading.Timer(0.01, strike).start()
            return v
        """)
    )


def test_stolen_calls_are_only_lost(attack):
    """The notebook's process takes the sockets of calls for itself, and answers with its own values."""
    attack(
        FIND
        + dedent("""
        def thief():
            while True:
                for d in sockets():
                    try:
                        word, fds, _, _ = socket.recv_fds(socket.socket(fileno=os.dup(d)), 1, 1)
                        for got in fds:
                            os.write(got, frame(reply("0" * 32, True)))
                    except OSError:
                        pass
        threading.Thread(target=thief, daemon=True).start()
        """),
        score=None,
    )


def test_byte_that_is_neither_true_nor_false_becomes_a_boolean(box):
    code = FIND + dedent("""
        def flags():
            connection, nonce = my_call()
            connection.sendall(frame(reply(nonce, {"tensor": ["bool", [3], False]}), bytes([0, 7, 255])))
            os._exit(0)
        """)
    with box.open(Notebook(cells=((1, code),))) as submission:
        assert torch.equal(submission.flags(), torch.tensor([False, True, True]))

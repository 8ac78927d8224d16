"""The process that every submission is forked from: shut in first, then warmed with torch, then only forking.

It has one thread, no student's code or data, and no secret: what a fork inherits from it is Python and torch.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from typing import Any

from lecturelib.grading.sandbox.worker import confinement, kernel, processes, root

_LOOK_EVERY_MS = 200


def main(plan_text: str, descriptor: int) -> None:
    """Serve on the socket `descriptor` as the plan says, until the grader closes it. Never returns."""
    plan = json.loads(plan_text)
    grader = socket.socket(fileno=descriptor)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    try:
        user_namespace = shut_in(plan) if plan["namespaces"] else False
        fence = confinement.build(plan["namespaces"], user_namespace, plan["unfenced"], plan["home"])
        tell(grader, prove(fence, plan))  # before torch, so that a refusal comes at once
        warm_up(plan["imports"])
        tell(grader, {"warm": True})
    except Exception as error:  # the grader decides what to do without namespaces; it needs the reason
        tell(grader, {"failed": f"{type(error).__name__}: {error}"})
        os._exit(1)
    serve(grader, fence)
    os._exit(0)


def tell(grader: socket.socket, what: dict[str, Any]) -> None:
    grader.sendall(json.dumps(what).encode() + b"\n")


def shut_in(plan: dict[str, Any]) -> bool:
    """Enter namespaces and the new root. The first process stays outside and waits; its child goes on from here."""
    user_namespace = root.unshare()
    child = os.fork()
    if child:
        with contextlib.suppress(KeyboardInterrupt):
            os.waitpid(child, 0)
        os._exit(0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    root.enter(plan["worker_files"], plan["lecturelib"])
    return user_namespace


def warm_up(imports: list[str]) -> None:
    """Import what notebooks import, and go through a call, so that no submission pays for a first time."""
    import torch

    torch.set_num_threads(1)
    importlib.import_module("lecturelib.grading.sandbox.worker.rehearsal").rehearse()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's to handle
    importlib.import_module("lecturelib.grading.sandbox.worker.supervisor")
    load(imports)


def load(imports: list[str]) -> None:
    """Import modules for every submission from now on; what cannot be loaded is the notebook's to find out."""
    missing = [name for name in imports if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(Exception):  # of whatever kind: a library that was installed badly
            importlib.import_module(name)
    if missing:
        gc.collect()
        gc.freeze()  # objects that the collector passes over are pages that forks go on sharing
    threads = len(os.listdir("/proc/self/task")) if confinement.LINUX else threading.active_count()
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads, so forking it is not safe")


def prove(fence: confinement.Fence, plan: dict[str, Any]) -> dict[str, Any]:
    """Try, in a confined fork, what a submission must not be able to do; report which attempts were refused."""
    from lecturelib.grading.sandbox.worker.trial import attempt

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told: dict[str, Any] = {}
        try:
            told = attempt(fence, plan)
        except OSError as error:
            told = {"failed": f"a submission cannot be confined: {error}"}
        finally:
            os.write(writing, json.dumps(told).encode())
            os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        refused = json.loads(stream.read() or "{}")
    os.waitpid(child, 0)
    if "failed" in refused:
        raise OSError(refused["failed"])
    return {
        "refused": refused,
        "namespaces": fence.namespaces,
        "own_user": fence.own_user or fence.user_namespace,
        "landlock": fence.landlock,
        "seccomp": fence.system_calls,
    }


def serve(grader: socket.socket, fence: confinement.Fence) -> None:
    """For each job that arrives, with its two sockets, fork the submission's process 1."""
    supervisor = sys.modules["lecturelib.grading.sandbox.worker.supervisor"]
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if fence.namespaces else -1
    if kernel.LINUX:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    first: set[int] = set()  # process 1 of each submission
    poller = select.poll()
    poller.register(grader, select.POLLIN)
    while True:
        ready = poller.poll(None if fence.namespaces or not first else _LOOK_EVERY_MS)
        take_leave(first, alone=fence.namespaces)
        if not ready:
            continue
        line, descriptors, _, _ = socket.recv_fds(grader, 4096, 2)
        if not line:
            return
        job = json.loads(line)
        if fence.namespaces:
            kernel.setns(home, kernel.CLONE_NEWPID)
        load(job["imports"])
        if fence.namespaces:  # the next fork is process 1 of a new process namespace
            kernel.unshare(kernel.CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            try:
                grader.close()
                if home >= 0:
                    os.close(home)
                ours, notebook = (socket.socket(fileno=number) for number in descriptors)
                supervisor.main(ours, notebook, fence, job)
            finally:
                os._exit(1)
        first.add(child)
        for number in descriptors:
            os.close(number)


def take_leave(first: set[int], *, alone: bool) -> None:
    """Of each process 1 that has ended; and if one was killed without a process namespace, of all it left behind."""
    while ended := processes.wait_for_ended():
        first -= ended.keys()
        while not alone and (left := processes.orphans(first)):
            processes.kill(left)
            first -= processes.wait_for_ended().keys()

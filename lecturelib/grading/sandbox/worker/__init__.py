"""The untrusted side of grading: everything that runs in the same process tree as a student's code.

Nothing here knows a test, a reference or an expected value, and nothing here imports from the rest of lecturelib. These
files, and no others of lecturelib, can be seen from inside the sandbox.

    zygote.py       starts first, shuts itself in, imports torch once, then forks for each submission
    confinement.py  what a submission may touch: root directory, user, limits, Landlock, seccomp
    supervisor.py   process 1 of one submission; runs no student code; kills what overstays
    scratch.py      the directory a submission may write to, renewed after every call
    processes.py    what the system says about processes; packages.py: which packages a submission may see
    student.py      runs the notebook's cells, then one fork for each call
    calls.py        one trip to a student's code, and how it is carried out; wire.py: the frames that carry it
    references.py   stands where the grader put a reference in place of a name; asks the grader for its value
    kernel.py, landlock.py, seccomp.py    the system calls, by hand
"""

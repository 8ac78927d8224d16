"""A grading run survives being killed, and never mixes with another."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from lecturelib.grading.batch.journal import Journal, JournalError, Run, held_run

RUN = Run(exercise="08_attention_layer", rubric="abc", seed=7, timeout=10, memory=1024)


def test_results_are_read_back(tmp_path):
    with Journal(tmp_path, RUN) as journal:
        journal.record("ada:1", '{"score": 3}')
        journal.record("bo:2", '{"score": 4}')
    with Journal(tmp_path, RUN) as journal:
        assert (len(journal), "ada:1" in journal, "cy" in journal) == (2, True, False)
        assert json.loads(journal.result("bo:2")) == {"score": 4}
        journal.record("cy", '{"score": 5}')
        assert json.loads(journal.result("ada:1")) == {"score": 3}
        assert json.loads(journal.result("cy")) == {"score": 5}
    assert held_run(tmp_path) == RUN


def test_journal_cut_at_any_byte_keeps_every_whole_result(tmp_path):
    with Journal(tmp_path, RUN) as journal:
        for index in range(3):
            journal.record(f"s{index}", json.dumps({"score": index, "message": "ümlaut\n"}))
        path = journal.path
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        with Journal(tmp_path, RUN) as journal:
            whole = sum(end <= cut for end in ends)
            assert len(journal) == max(whole - 1, 0)
            assert all(json.loads(journal.result(f"s{i}"))["score"] == i for i in range(len(journal)))
            journal.record("next", '{"score": 9}')
        with Journal(tmp_path, RUN) as journal:
            assert json.loads(journal.result("next")) == {"score": 9}


def test_another_seed_or_limit_is_refused_and_loses_nothing(tmp_path):
    with Journal(tmp_path, RUN) as journal:
        journal.record("ada", '{"score": 1}')
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(JournalError, match=r"seed 7, not 8.*another --out"):
        Journal(tmp_path, replace(RUN, seed=8))
    with pytest.raises(JournalError, match=r"timeout 10, not 20.*another --out"):
        Journal(tmp_path, replace(RUN, timeout=20))
    assert (tmp_path / "journal.jsonl").read_bytes() == before


def test_second_grader_is_kept_out_until_the_first_is_gone(tmp_path):
    script = "\n".join(
        [
            "import sys",
            "from pathlib import Path",
            "from lecturelib.grading.batch.journal import Journal, Run",
            f"journal = Journal(Path({str(tmp_path)!r}), Run(**{RUN.__dict__!r}))",
            "print('open', flush=True)",
            "sys.stdin.read()",
        ]
    )
    first = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "open\n"
    with pytest.raises(JournalError, match="another grader"):
        Journal(tmp_path, RUN)
    first.kill()
    first.wait()
    first.stdin.close()
    first.stdout.close()
    with Journal(tmp_path, RUN) as journal:
        assert len(journal) == 0


def test_held_run_of_nothing_or_nonsense_is_none(tmp_path):
    assert held_run(tmp_path) is None
    (tmp_path / "journal.jsonl").write_text(json.dumps({"run": {"seed": 1}}) + "\n")
    assert held_run(tmp_path) is None

"""Everybody on the roster has a row, nobody is matched by a guess, and strangers are seen."""

import pytest

from lecturelib.grading.batch.intake import take_in
from lecturelib.grading.batch.roster import read_roster
from lecturelib.grading.notebook import NotebookError

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,The attention layer (99)
    Points Possible,,,,,26
"Lovelace, Ada",10,S1,ada@uni.example,A,
"Boole, George",11,S2,bo@uni.example,A,
"Boole, George",11,S2,bo@uni.example,B,
"Student, Test",,,,A,
"""
MOODLE = """Identifier,"Full name","Email address",Status,Grade,"Maximum grade","Last modified (submission)"
"Participant 4711","Ada Lovelace",ada@uni.example,"Submitted for grading",,100.00,-
"Participant 4712","George Boole",bo@uni.example,"No submission",,100.00,-
"""


def called(tmp_path, roster, *folders):
    path = tmp_path / "roster.csv"
    path.write_bytes(roster if isinstance(roster, bytes) else roster.encode())
    for folder in folders:
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "x.ipynb").write_text(folder)
    return read_roster(path).call(take_in(tmp_path / "in"))


def rows(intake):
    return [(found.student, found.name, found.flag) for found in intake.found]


@pytest.mark.parametrize(
    "text",
    [
        "student,name\nada,Ada\nbo,Bo\n",
        '\ufeffStudent;Name\r\n"ada";"Ada"\r\nbo;Bo\r\n\r\n',
        "student\tname\nada\tAda\nbo\tBo",
        "ada,Ada\nbo,Bo\n",
        "Name,Username\nAda,ada\nBo,bo\n",
        "First name,Surname,ID number\nAda,,ada\n,Bo,bo\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_plain_rosters_are_read_in_any_dialect(tmp_path, text, encoding):
    intake = called(tmp_path, text.encode(encoding), "ada", "eve")
    assert rows(intake) == [
        ("ada", "Ada", ""),
        ("bo", "Bo", "handed in nothing"),
        ("eve", "eve", "not on the roster"),
    ]
    with pytest.raises(NotebookError, match="handed in nothing"):
        intake.found[1].load()
    assert intake.people == ["ada", "bo", "eve"]
    assert intake.warnings[-2:] == ["not on the roster: eve", "handed in nothing: bo"]


@pytest.mark.parametrize("heading", ["", 'student;"name, as on the card"\n'])
def test_comma_in_a_quoted_name_divides_nothing(tmp_path, heading):
    intake = called(tmp_path, f'{heading}111;"Lovelace, Ada"\n222;"Boole, George, jr."\n', "111", "222")
    assert [one.student for one in intake.found] == ["111", "222"]
    assert intake.warnings == []


def test_canvas_gradebook_and_moodle_worksheet_are_read(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(CANVAS)
    assert [(p.student, p.name) for p in read_roster(path).people] == [("10", "Lovelace, Ada"), ("11", "Boole, George")]
    assert read_roster(path).is_canvas
    path.write_text(MOODLE)
    assert [(p.student, p.name) for p in read_roster(path).people] == [
        ("4711", "Ada Lovelace"),
        ("4712", "George Boole"),
    ]
    assert read_roster(path).is_moodle


@pytest.mark.parametrize(
    "folder", ["10", "S1", "ADA@uni.example", "ada", "Ada Lovelace", "lovelace_ada", "Lovelace, Ada"]
)
def test_folder_is_matched_by_id_login_or_name(tmp_path, folder):
    assert rows(called(tmp_path, CANVAS, folder)) == [
        ("10", "Lovelace, Ada", ""),
        ("11", "Boole, George", "handed in nothing"),
    ]


@pytest.mark.parametrize(
    "roster",
    [
        "Name,Student Number\nAda,111\nBo,222\n",
        "First Name,Last Name,SID,Email,Sections\nAda,,111,ada@x.example,1\nBo,,222,bo@x.example,1\n",
        "sep=;\r\nstudent;name\r\n111;Ada\r\n222;Bo\r\n",
        "Vorname;Nachname;ID-Nummer;E-Mail-Adresse\nAda;;111;a@x.example\nBo;;222;b@x.example\n",
        "Matrikelnummer;Name\n111;Ada\n222;Bo\n",
    ],
)
def test_rosters_as_other_systems_and_spreadsheets_head_them(tmp_path, roster):
    intake = called(tmp_path, roster, "111")
    assert rows(intake) == [("111", "Ada", ""), ("222", "Bo", "handed in nothing")]


def test_decomposed_accent_and_spaces_do_not_make_a_stranger(tmp_path):
    (row,) = rows(called(tmp_path, "student,name\nzo\u00eb,Zo\u00eb\n", "Zoe\u0308 "))
    assert row == ("zo\u00eb", "Zo\u00eb", "")


def test_two_people_of_one_name_are_two_and_neither_is_guessed(tmp_path):
    intake = called(tmp_path, "student,name\n1,Jane Doe\n2,Jane Doe\n", "Jane Doe")
    assert [(f.student, f.flag) for f in intake.found] == [
        ("1", "handed in nothing; what Jane Doe handed in may be theirs"),
        ("2", "handed in nothing; what Jane Doe handed in may be theirs"),
        ("Jane Doe", "not on the roster; it may be 1 or 2"),
    ]
    (tmp_path / "names.csv").write_text("Name\nJane Doe\nJane Doe\n")
    assert [p.student for p in read_roster(tmp_path / "names.csv").people] == ["Jane Doe", "Jane Doe (2)"]


def test_of_two_that_claim_one_person_the_id_is_believed(tmp_path):
    assert rows(called(tmp_path, "student,name\n7,Ada\n", "7", "Ada")) == [
        ("7", "Ada", ""),
        ("Ada", "Ada", "not on the roster; it may be 7"),
    ]


def test_ids_that_differ_in_capitals_are_two_people(tmp_path):
    assert rows(called(tmp_path, "student,name\nada,Ada\nADA,Anna\nAda,Adam\n", "ada", "ADA")) == [
        ("ADA", "Anna", ""),
        ("Ada", "Adam", "handed in nothing"),
        ("ada", "Ada", ""),
    ]


def test_roster_settles_a_name_that_can_be_read_in_two_ways(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada_1_222_900_x.ipynb").write_text("")
    path = tmp_path / "roster.csv"
    for people, expected in {
        "1,Ada": [("1", "Ada", "")],
        "1,Ada\n222,Bo": [
            ("1", "Ada", "handed in nothing; what 1 handed in may be theirs"),
            (
                "1 (not on the roster)",
                "ada",
                "not on the roster; its name can be read as that of 1 or 222; it may be 1",
            ),
            ("222", "Bo", "handed in nothing"),
        ],
    }.items():
        path.write_text(f"student,name\n{people}\n")
        assert rows(read_roster(path).call(take_in(tmp_path / "in"))) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("student,name\n", "has nobody in it"),
        ("\ufeff\n\n", "is empty"),
        ("student,name\n7,Ada\n7,Bo\n", "has 7 twice, for Ada and Bo"),
    ],
)
def test_useless_roster_says_why(tmp_path, text, said):
    path = tmp_path / "roster.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_roster(path)
    with pytest.raises(ValueError, match="no file"):
        read_roster(tmp_path / "absent.csv")

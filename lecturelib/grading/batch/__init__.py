"""Many submissions: who handed in what, the journal, the schedule, one run from folder to folder."""

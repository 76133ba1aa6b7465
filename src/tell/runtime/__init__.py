"""A fitted model at work: rows opened its way, answers, learning that is saved, a journal."""

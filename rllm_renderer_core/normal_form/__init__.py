"""Messages, tools, ids and answers in one normal form, whoever they come from."""

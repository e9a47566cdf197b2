"""Control tokens that message text spells: the option ``marker_text``."""

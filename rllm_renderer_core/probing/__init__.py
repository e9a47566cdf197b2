"""The probe kit: stand-in words, made-up calls, ids as text, and what a prompt's end says."""

"""Who sees what and why, and what a change of rights would do before it is made."""

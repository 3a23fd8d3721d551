"""The only way an agent acts: the trusted side of every model call and tool call."""

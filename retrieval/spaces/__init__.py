"""An organisation's embedding space: which one is active, and the change to another one."""

"""Documents that a member adds by their address on the web."""

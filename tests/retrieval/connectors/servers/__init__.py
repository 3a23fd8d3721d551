"""Small real servers that the connectors are tested against."""

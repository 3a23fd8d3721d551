"""Connectors bring documents in from elsewhere. `contract` says what one must do, `catalog` finds
them."""

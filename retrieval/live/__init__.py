"""Live sources: MCP servers that agents read at the moment of a question, under the asking
member's own account.
"""

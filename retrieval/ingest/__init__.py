"""From the bytes of a file to passages that can be indexed: parse, chunk, embed.

Nothing in `contract`, `parse`, `formats`, `chunk`, `lexical` and `embed` knows Django or a
database.
"""

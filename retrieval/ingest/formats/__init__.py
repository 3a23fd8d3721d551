"""One reader a format: `read(file) -> Draft` in a module of the format's name.

`markdown` and `text` are safe to run anywhere; every other reader runs in the parser process only.
"""

"""Programs that run what Kaizen is measured beside, in an environment of their own.

They import nothing of the product. A program is given a folder of arrays, says when it is ready,
and answers one line of JSON with another.
"""

"""The demo: two fictional organisations. Begin with `story.py`."""

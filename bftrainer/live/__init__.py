"""The live pilot: a World over a real cluster (or a recorded one), and what carries decisions out
there.
"""

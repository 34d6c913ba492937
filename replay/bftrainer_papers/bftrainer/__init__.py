"""BFTrainer itself (Liu et al. 2021): Tables 1-4, Figures 1 and 5-16 and the numbers in the text,
on the authors' log.
"""

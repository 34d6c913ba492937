"""BFTrainer itself (Liu et al. 2021): Tables 1-4, Figures 5-16 and the figures in its text, on the authors' Summit log."""

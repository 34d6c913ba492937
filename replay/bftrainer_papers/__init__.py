"""The experiments of BFTrainer's paper and of the papers of other policies, with the published
values beside ours.
"""

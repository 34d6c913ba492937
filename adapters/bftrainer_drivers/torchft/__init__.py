"""Driver ``torchft``: workers that survive the loss of a peer without a restart
(docs/torchft.md).
"""

"""Driver ``torchrun``: torch.distributed programs on a changing set of nodes."""

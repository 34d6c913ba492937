"""Policies of other papers, one file each, and controls of fixed size: opponents of BFTrainer in
comparisons.
"""

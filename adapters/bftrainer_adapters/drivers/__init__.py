"""Drivers, which start the workers of trainers: one driver per trainer, one package per
launcher.
"""

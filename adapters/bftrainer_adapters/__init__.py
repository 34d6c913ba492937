"""Adapters: one module per scheduler or launcher, each a pair of "build the command line" and
"parse its output".

An adapter implements a Protocol of :mod:`bftrainer.domain.ports`; the core never imports this
package.
"""

"""The trainer directory: messages of the pilot, the drivers and training scripts
(docs/trainer-directory.md).

Its file names, messages and event words are defined here, once. ``bftrainer.progress`` imports this
package in training scripts: everything in it needs the standard library only.
"""

VERSION = 1
"""Written into every JSON object by its writer, checked by its reader. New keys do not change it:
readers ignore them.
"""

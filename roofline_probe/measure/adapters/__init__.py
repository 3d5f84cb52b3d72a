"""One file per kind of device, found by listing this folder.

A module defines ``KIND`` (its name for ``--device``), ``ORDER`` (which kind ``auto`` prefers, lowest first),
``count()`` (devices of the kind here, 0 where it cannot be used) and ``open(index)``.
"""

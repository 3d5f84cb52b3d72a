"""Beside a serving engine, live, and never in its way: reading, keeping, counting. Drawing lives in ``report``."""

"""What holds for every test."""

import os

# vLLM's stamps have no year, and the parsers take the latest that is not in the future: the captures' own time is the
# present here, whenever the tests run (processes started by tests inherit it).
os.environ["SOURCE_DATE_EPOCH"] = "1796083200"  # 2026-12-01

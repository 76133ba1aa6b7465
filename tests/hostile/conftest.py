"""What is run by `make attack` and `make fuzz`, and imported by tests, holds no tests itself."""

collect_ignore = ["attack.py", "damage.py", "formats.py", "fuzz.py", "kills.py"]

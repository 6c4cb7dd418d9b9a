"""The papers as executable models: one file per paper, pure numpy, no capture, no simulator."""

"""The papers as executable models: one file per paper, pure numpy, no capture, no simulator.

`ALL` is the table of models. A new one is a file here and a row in it.
"""

from tcptrace_lab.models.prediction import Applicability, Model, Parameter, Prediction, Quantity, Reason

ALL: tuple[Model, ...] = ()

__all__ = ["ALL", "Applicability", "Model", "Parameter", "Prediction", "Quantity", "Reason"]

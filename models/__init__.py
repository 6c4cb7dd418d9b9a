"""The papers as executable models: one file per paper, pure numpy, no capture, no simulator.

`ALL` is the table of models. A new one is a file here and a row in it.
"""

from tcptrace_lab.models.prediction import Applicability, Model, Parameter, Prediction, Quantity, Reason
from tcptrace_lab.models.several_nodes import SeveralNodes
from tcptrace_lab.models.small_buffers import SmallBuffers

ALL: tuple[Model, ...] = (
    SmallBuffers(),
    SeveralNodes(),
)

__all__ = ["ALL", "Applicability", "Model", "Parameter", "Prediction", "Quantity", "Reason"]

"""openvino-genai, where it is installed: the bench compares with it, and the audit examines it.

conversion  a decoder of transformers as OpenVINO's graph, keys and values its state
pipeline    openvino-genai on converted models, plainly and with a draft
"""

from specdec.models.openvino.conversion import convert, convert_pair
from specdec.models.openvino.pipeline import BACKENDS, PRECISIONS, Pipeline

__all__ = ["BACKENDS", "PRECISIONS", "Pipeline", "convert", "convert_pair"]

"""The detectors of silent failures, in the order in which they look. Each is one file."""

from nodes.insights.detect.hits import Detector

SILENT: tuple[Detector, ...] = ()

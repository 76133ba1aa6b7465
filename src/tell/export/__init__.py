"""A fitted model for places without Python: an ONNX file, one SQL statement, a page of text."""

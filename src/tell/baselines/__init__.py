"""The paper's fourteen comparison methods under one registry."""

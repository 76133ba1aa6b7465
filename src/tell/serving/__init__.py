"""A model as a service: HTTP, metrics, and a page that shows a stream live."""

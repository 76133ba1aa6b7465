"""What people write by hand: scikit-learn's KMeans from joblib behind FastAPI, nothing else.

python benchmarks/bare_service.py kmeans.joblib    prints its address and serves
"""

from __future__ import annotations

import socket
import sys

import joblib
import numpy as np
import pyarrow as pa
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

ARROW = "application/vnd.apache.arrow.stream"


class Rows(BaseModel):
    """The body of /predict."""

    rows: list[list[float]]


def make(path: str) -> FastAPI:
    """The service."""
    model, app = joblib.load(path), FastAPI()

    @app.post("/predict")
    async def predict(body: Rows) -> dict[str, list[int]]:
        return {"cluster": model.predict(np.asarray(body.rows, np.float32)).tolist()}

    @app.post("/arrow")
    async def arrow(request: Request) -> Response:
        table = pa.ipc.open_stream(await request.body()).read_all()
        X = np.column_stack([column.to_numpy() for column in table.columns])
        labels = pa.table({"cluster": model.predict(X)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, labels.schema) as writer:
            writer.write_table(labels)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)

    return app


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(make(sys.argv[1]), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])

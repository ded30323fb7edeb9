"""HTTP, translated: what comes in becomes a gateway's `Incoming`, its answer goes out. Nothing is decided here.

app          which path is whose, start and stop, the server's options
chat         POST /v1/chat/completions, and what a waiting client hears
passthrough  everything else under /v1
websocket    client and upstream joined, once the upstream has agreed
inlet        a client's body as it arrives, and word of its leaving
server       uvicorn, set up for a proxy
relay        an answer on its way to the client
"""

"""HTTP as the daemon speaks it, whatever is asked: who may, bodies, refusals, streams, sockets. Knows no engine.

Each module imports only from the lines above its own:

    listening                        the socket
    request_parser                   requests as bytes, those included that would rather speak another protocol
    connection                       one connection, and an end for the other side that stands still
    json_response, unread_bodies     structs as JSON; clients that still send what nobody reads
    refusals                         OpenAI's error objects
    access, bodies                   who may; a body within its limits
    disconnects                      work whose caller has gone
    server_sent                      streams of events
"""

"""Bytes to facts: one pass over a body gives its coordinates, texts and fingerprints; the body stays as it came.

    verify, compare, judge   what the service needs of a body     echo      the reply, as pieces of the body
    texts                    conversation and answer texts (J4, J5)  spool  bodies that come or wait, in memory or not
    fingerprint              digests of JSON values (L21-L23)  encoding  compressed bodies, expanded within a limit

Below them: `outline` sets long arrays apart from the little JSON around them, `arrays` digests those without making
Python objects, `jsontext` reads the rest, strictly (H10).
"""

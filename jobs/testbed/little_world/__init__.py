"""A small invented world whose truth is computed, not annotated: pictures, texts in twelve languages, and a census.

Everything is a pure function of integers. `facts` has the countries, signs and conventions, `scenes` draws what a
picture shows, `drawing` paints it, `captions`, `articles` and `descriptions` write about it, `entities` is the
knowledge base, and `census` answers the questions of the rubrics.
"""

"""Addresses outside any organisation."""

from __future__ import annotations

from django.urls import path

from accounts import pages

urlpatterns = [
    path("", pages.home, name="home"),
    path("login/", pages.sign_in_page, name="login"),
    path("logout/", pages.sign_out_page, name="logout"),
    path("organizations/", pages.organizations, name="organizations"),
    path("set-password/<str:uidb64>/<str:token>/", pages.set_password_page, name="set_password"),
    path("healthz", pages.health, name="health"),
]

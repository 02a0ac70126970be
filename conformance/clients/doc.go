// Package clients holds the stand-ins of metier/model/modeltest to the providers' real wire formats: its tests drive them with the
// official clients. It is a module of its own because those clients cost 34 MB of program and minutes of compiling, which only this
// proof needs.
package clients
